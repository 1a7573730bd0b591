// SPDX-License-Identifier: GPL-2.0-only
/* What holds a registration: see registration.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sys/registration.h"

/*
 * The kernel's struct bpf_struct_ops_common_value, with which the value of
 * every struct_ops map begins.
 */
struct ops_head {
	uint32_t refcnt;
	uint32_t state;
};
#define OPS_INUSE \
	1 /* BPF_STRUCT_OPS_STATE_INUSE: registered without a link \
		     */

/*
 * Whether a struct_ops map is the controller's, by its name: a link of anything
 * else, a scheduler for example, is not ours to detach.
 */
static bool is_ops_of(const char *name, const struct bpf_map_info *info)
{
	return info->type == BPF_MAP_TYPE_STRUCT_OPS &&
	       strncmp(info->name, name, sizeof(info->name)) == 0;
}

/* The same of the map that the link holds. Without CAP_SYS_ADMIN that is not known:
 * then it is taken for ours. */
static bool is_foreign(uint32_t ops_id, const char *name)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);
	int fd = bpf_map_get_fd_by_id(ops_id);
	bool foreign = fd >= 0 && !bpf_map_get_info_by_fd(fd, &info, &size) &&
		       !is_ops_of(name, &info);

	if (fd >= 0)
		close(fd);
	return foreign;
}

int registration_of_link(int fd, const char *name, struct registration *out)
{
	struct bpf_link_info info = { 0 };
	__u32 size = sizeof(info);

	*out = (struct registration){ .state = REGISTRATION_FOREIGN };
	if (bpf_link_get_info_by_fd(fd, &info, &size))
		return -errno;
	if (info.type != BPF_LINK_TYPE_STRUCT_OPS)
		return 0;
	out->by_link = true;
	out->link_id = info.id;
	out->ops_id = info.struct_ops.map_id;
	if (!out->ops_id)
		out->state = REGISTRATION_DETACHED;
	else if (!is_foreign(out->ops_id, name))
		out->state = REGISTRATION_HELD;
	return 0;
}

int registration_of_map(int fd, const char *name, struct registration *out)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info), zero = 0;
	union {
		struct ops_head head;
		char bytes[4096]; /* the value is 256 bytes on Linux 6.18 */
	} value = { 0 };

	*out = (struct registration){ .state = REGISTRATION_FOREIGN };
	if (bpf_map_get_info_by_fd(fd, &info, &size))
		return -errno;
	if (!is_ops_of(name, &info) || info.value_size > sizeof(value))
		return 0;
	out->ops_id = info.id;
	if (bpf_map_lookup_elem(fd, &zero, &value))
		return -errno;
	out->state = value.head.state == OPS_INUSE ? REGISTRATION_HELD : REGISTRATION_NONE;
	return 0;
}
