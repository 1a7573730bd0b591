// SPDX-License-Identifier: GPL-2.0-only
/* nf_red on a device, as its pins tell: see aqm.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "aqm/aqm.h"
#include "out/errors.h"
#include "sys/pins.h"

const struct attachment_map aqm_maps[AQM_MAPS] = {
	[AQM_MAP_IDENTITY] = { PIN_IDENTITY, ".rodata.identity",
			       ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_aqm_identity)) },
	[AQM_MAP_CONFIG] = { "config", ".data.config",
			     ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_aqm_config)) },
	[AQM_MAP_STATE] = { "state", ".data.state",
			    ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_aqm_state)) },
	[AQM_MAP_COUNTS] = { "counts", "counts",
			     ONE_VALUE(BPF_MAP_TYPE_PERCPU_ARRAY,
				       sizeof(struct ccbpf_aqm_counts)) },
};

static const struct attachment_kind attachment =
	TCHOOK_ATTACHMENT(AQM_MAPS, CCBPF_AQM_ABI, AQM_PROGRAM);

const struct tchook_kind aqm_kind = {
	.dir = AQM_DIR,
	.suffix = "",
	.title = "nf_red",
	.command = "aqm",
	.maps = aqm_maps,
	.attachment = &attachment,
};

int aqm_read_config(const char *what, const struct tchook *aqm, struct ccbpf_aqm_config *out)
{
	return tchook_read_map(what, aqm, AQM_MAP_CONFIG, out);
}

int aqm_read_state(const char *what, const struct tchook *aqm, struct ccbpf_aqm_state *out)
{
	return tchook_read_map(what, aqm, AQM_MAP_STATE, out);
}

static const char *path_of(const struct tchook *aqm, enum aqm_map map)
{
	return attachment_path(&aqm->attachment, aqm_maps[map].pin);
}

int aqm_write_config(const char *what, const struct tchook *aqm,
		     const struct ccbpf_aqm_config *config)
{
	uint32_t zero = 0;
	int err = 0, fd = attachment_open_map(&aqm->attachment, AQM_MAP_CONFIG);

	if (fd < 0)
		return pin_unusable(what, path_of(aqm, AQM_MAP_CONFIG), fd);
	if (bpf_map_update_elem(fd, &zero, config, BPF_ANY))
		err = fail_errno(what, path_of(aqm, AQM_MAP_CONFIG), errno);
	close(fd);
	return err;
}

int aqm_read_counts(const char *what, const struct tchook *aqm, struct ccbpf_aqm_counts *out)
{
	return tchook_read_sums(what, aqm, AQM_MAP_COUNTS, (__u64 *)out,
				sizeof(*out) / sizeof(__u64));
}
