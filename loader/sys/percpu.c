// SPDX-License-Identifier: GPL-2.0-only
/* Counters that each CPU keeps for itself: see percpu.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/percpu.h"
#include "util/memory.h"

int percpu_sum(int fd, __u32 key, void *sum, size_t bytes)
{
	size_t n = bytes / sizeof(__u64);
	int cpus = libbpf_num_possible_cpus(), err;
	__u64 *each, *all = sum;

	memset(sum, 0, bytes);
	if (cpus < 0)
		return cpus;
	each = must_alloc(cpus, bytes);
	err = bpf_map_lookup_elem(fd, &key, each) ? -errno : 0;
	for (size_t i = 0; !err && i < n * cpus; i++)
		all[i % n] += each[i];
	free(each);
	return err;
}
