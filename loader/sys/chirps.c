// SPDX-License-Identifier: GPL-2.0-only
/* What nf_tcp's chirps need of this host: see chirps.h. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/chirps.h"
#include "sys/qdisc.h"
#include "util/memory.h"
#include "util/text.h"

#define WORDS 256 /* of memory: more than a flow's chirps need */

/* A map of socket storage, or -errno. */
static int make_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	struct btf *btf = btf__new_empty();
	int word, words, fd = -ENOMEM;

	if (!btf)
		return -errno;
	word = btf__add_int(btf, "int", sizeof(int), BTF_INT_SIGNED);
	words = btf__add_array(btf, word, word, WORDS);
	if (word > 0 && words > 0)
		fd = btf__load_into_kernel(btf);
	if (fd >= 0) {
		opts.btf_fd = btf__fd(btf);
		opts.btf_key_type_id = word;
		opts.btf_value_type_id = words;
		fd = bpf_map_create(BPF_MAP_TYPE_SK_STORAGE, "ccbpf_try", sizeof(int),
				    WORDS * sizeof(int), 0, &opts);
	}
	btf__free(btf);
	return fd;
}

int chirps_try_storage(void)
{
	int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int value[WORDS] = { 0 }, map = make_map(), err = 0;

	if (socket_fd < 0 || map < 0)
		err = map < 0 ? map : -EAFNOSUPPORT;
	else if (bpf_map_update_elem(map, &socket_fd, value, BPF_ANY))
		err = -errno;
	if (map >= 0)
		close(map);
	if (socket_fd >= 0)
		close(socket_fd);
	return err;
}

static bool has_fq(uint32_t ifindex)
{
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	bool has = false;

	if (!qdiscs_read(ifindex, all))
		for (unsigned int i = 0; i < all->n; i++)
			has |= !strcmp(all->q[i].kind, "fq");
	free(all);
	return has;
}

const char *chirps_fq_devices(void)
{
	struct if_nameindex *devices = if_nameindex();
	static char names[128];

	*names = '\0';
	for (const struct if_nameindex *d = devices; d && d->if_index; d++)
		if (has_fq(d->if_index))
			append(names, sizeof(names), ", ", "%s", d->if_name);
	if_freenameindex(devices);
	return *names ? names : NULL;
}
