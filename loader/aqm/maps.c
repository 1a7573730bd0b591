// SPDX-License-Identifier: GPL-2.0-only
/* The maps of an attached nf_red: see maps.h. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm/maps.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "util/memory.h"

const struct aqm_map_names aqm_maps[AQM_MAPS] = {
#define X(id, pin, name) { pin, name },
	AQM_MAP_TABLE(X)
#undef X
};

static const char *path_of(const struct aqm *aqm, enum aqm_map map)
{
	return pin_path(aqm->dir, aqm_maps[map].pin);
}

static int open_map(const struct aqm *aqm, enum aqm_map map, enum bpf_map_type type,
		    uint32_t value_size)
{
	struct map_shape shape = { type, sizeof(uint32_t), value_size, 1 };

	return pin_open_map(path_of(aqm, map), &shape);
}

int aqm_read_map(const struct aqm *aqm, enum aqm_map map, enum bpf_map_type type,
		 uint32_t value_size, void *out)
{
	uint32_t zero = 0;
	int err, fd = open_map(aqm, map, type, value_size);

	if (fd < 0)
		return fd;
	err = bpf_map_lookup_elem(fd, &zero, out) ? -errno : 0;
	close(fd);
	return err;
}

static int read_array(const char *what, const struct aqm *aqm, enum aqm_map map,
		      uint32_t value_size, void *out)
{
	int err = aqm_read_map(aqm, map, BPF_MAP_TYPE_ARRAY, value_size, out);

	return err ? pin_unusable(what, path_of(aqm, map), err) : EXIT_OK;
}

int aqm_read_config(const char *what, const struct aqm *aqm, struct ccbpf_aqm_config *out)
{
	return read_array(what, aqm, AQM_MAP_CONFIG, sizeof(*out), out);
}

int aqm_read_state(const char *what, const struct aqm *aqm, struct ccbpf_aqm_state *out)
{
	return read_array(what, aqm, AQM_MAP_STATE, sizeof(*out), out);
}

int aqm_write_config(const char *what, const struct aqm *aqm, const struct ccbpf_aqm_config *config)
{
	uint32_t zero = 0;
	int err = 0, fd = open_map(aqm, AQM_MAP_CONFIG, BPF_MAP_TYPE_ARRAY, sizeof(*config));

	if (fd < 0)
		return pin_unusable(what, path_of(aqm, AQM_MAP_CONFIG), fd);
	if (bpf_map_update_elem(fd, &zero, config, BPF_ANY))
		err = fail_errno(what, path_of(aqm, AQM_MAP_CONFIG), errno);
	close(fd);
	return err;
}

int aqm_read_counts(const char *what, const struct aqm *aqm, struct ccbpf_aqm_counts *out)
{
	int cpus = libbpf_num_possible_cpus(), err;
	struct ccbpf_aqm_counts *each = must_alloc(cpus > 0 ? cpus : 1, sizeof(*each));
	__u64 *sum = (void *)out;

	err = aqm_read_map(aqm, AQM_MAP_COUNTS, BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(*each), each);
	memset(out, 0, sizeof(*out));
	for (int cpu = 0; !err && cpu < cpus; cpu++) /* all are __u64 */
		for (size_t i = 0; i < sizeof(*out) / sizeof(*sum); i++)
			sum[i] += ((const __u64 *)&each[cpu])[i];
	free(each);
	return err ? pin_unusable(what, path_of(aqm, AQM_MAP_COUNTS), err) : EXIT_OK;
}
