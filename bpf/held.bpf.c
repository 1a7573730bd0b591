// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which process holds which socket: an iterator over the open files of all processes. It names a
 * socket as the records of `flows` do, so this finds the process of a flow whatever gave the flow its
 * controller, and in every network namespace.
 *
 * It is loaded for `ccbpf top` and `ccbpf -v flows`. A record costs less than a microsecond, where
 * the links of /proc/<pid>/fd cost several.
 */
#include "ccbpf/rule.h"
#include "kern/socket.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define LEVELS_MOST 32 /* MAX_PID_NS_LEVEL of include/linux/pid_namespace.h */

/* Its number in the PID namespace of the process that reads: the iterator visits no others. */
static __always_inline __u32 number_of(struct task_struct *leader)
{
	struct task_struct *reader = (void *)bpf_get_current_task();
	__u32 level = BPF_CORE_READ(reader, thread_pid, level);
	struct pid *pid = BPF_CORE_READ(leader, thread_pid);
	__u32 number = 0;

	if (level > LEVELS_MOST)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return number;
}

SEC("iter/task_file")
int held(struct bpf_iter__task_file *ctx)
{
	struct ccbpf_held_record record = {};
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;
	__u16 family;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	sk = socket ? socket->sk : NULL;
	family = sk ? sk->__sk_common.skc_family : 0;
	if (family != AF_INET && family != AF_INET6)
		return 0;
	record.flow = (__u64)(unsigned long)sk; /* flow_key() of kern/flows.bpf.h */
	record.cookie = sk->__sk_common.skc_cookie.counter;
	record.pid = number_of(task->group_leader);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
