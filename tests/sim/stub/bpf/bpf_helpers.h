/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF helpers that the programs call, on a host: functions of the simulator (tests/sim/programs.c), which finds a
 * program's maps by their addresses.
 */
#ifndef CCBPF_SIM_BPF_HELPERS_H
#define CCBPF_SIM_BPF_HELPERS_H

#include <string.h>

#define SEC(name)
#define __ksym
#define __weak __attribute__((weak))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name

void *sim_map_lookup(void *map, const void *key);
long sim_map_update(void *map, const void *key, const void *value, __u64 flags);
long sim_map_delete(void *map, const void *key);
void *sim_ringbuf_reserve(void *map, __u64 size);
void sim_ringbuf_submit(void *record);
void *sim_storage(void *map, void *sk, unsigned long size, _Bool create);
long sim_storage_delete(void *map, void *sk);
__u64 sim_now_ns(void);
__u32 sim_random(void);
long sim_getsockopt(void *sk, int level, int option, void *value, int size);
long sim_setsockopt(void *sk, int level, int option, void *value, int size);
long sim_skb_load(void *skb, __u32 at, void *to, __u32 size);
long sim_skb_store(void *skb, __u32 at, const void *from, __u32 size);

#define bpf_map_lookup_elem(map, key) sim_map_lookup(map, key)
#define bpf_map_update_elem(map, key, value, flags) sim_map_update(map, key, value, flags)
#define bpf_map_delete_elem(map, key) sim_map_delete(map, key)
#define bpf_ringbuf_reserve(map, size, flags) sim_ringbuf_reserve(map, size)
#define bpf_ringbuf_submit(record, flags) sim_ringbuf_submit(record)
#define bpf_sk_storage_get(map, sk, initial, flags) \
	sim_storage(map, sk, sizeof(*(map)->value), (flags) & BPF_SK_STORAGE_GET_F_CREATE)
#define bpf_sk_storage_delete(map, sk) sim_storage_delete(map, sk)
#define bpf_ktime_get_ns() sim_now_ns()
#define bpf_get_prandom_u32() sim_random()
#define bpf_getsockopt(sk, level, option, value, size) \
	sim_getsockopt(sk, level, option, value, size)
#define bpf_setsockopt(sk, level, option, value, size) \
	sim_setsockopt(sk, level, option, value, size)
#define bpf_skb_load_bytes(skb, at, to, size) sim_skb_load(skb, at, to, size)
#define bpf_skb_store_bytes(skb, at, from, size, flags) sim_skb_store(skb, at, from, size)

static inline long bpf_probe_read_kernel(void *to, __u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

#endif
