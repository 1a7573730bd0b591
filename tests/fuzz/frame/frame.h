/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the fuzz targets share.
 *
 * A target is tests/fuzz/NAME.c or NAME.cc. It has LLVMFuzzerTestOneInput(), and its inputs are texts
 * of lines. Its first inputs are in tests/fuzz/corpus/NAME; NAME.dict, if there is one, has words for
 * libFuzzer. The target is linked with the parts of the command that it calls, under ASan and
 * UBSan. It says with HOLDS() what must be true of each input, not only that nothing crashes.
 */
#ifndef CCBPF_FUZZ_FRAME_H
#define CCBPF_FUZZ_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Defined by the target. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* End the run as a finding unless `condition` is true. */
#define HOLDS(condition) ((condition) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #condition))
void __attribute__((noreturn)) fuzz_broken(const char *file, int line, const char *condition);

/* The input as a string, allocated to its size: ASan sees what is read behind it. */
char *fuzz_text(const uint8_t *data, size_t size);

/*
 * An input begins and ends. What the command says on stderr in between is kept, and the texts of
 * util/text.h are freed at the end.
 */
void fuzz_begin(void);
void fuzz_end(void);

/*
 * What was said must fit the exit code: nothing after 0; else one printable line that names what
 * failed and a remedy.
 */
void fuzz_said(int code);

/* Is it UTF-8 without a character that a terminal obeys? */
bool fuzz_printable(const char *string);

struct json_object;

/* A document must be printable, and the same document when its text is read. */
void fuzz_json(struct json_object *doc);

#ifdef __cplusplus
}
#endif

#endif
