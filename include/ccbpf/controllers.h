/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The table of controllers. Loader, documentation and tests read it; the kernel side takes its own number from it.
 *
 *   X(number, name, RESTRICTED|OPEN, title, source)
 *
 * number  1 … CCBPF_KINDS-1, never reused: it indexes the `stats` map and marks the records of `flows` and `events`.
 * name    what the kernel registers (at most 15 characters), the file bpf/<name>.bpf.c, the CLI's word.
 * access  OPEN: any process may select it (TCP_CONG_NON_RESTRICTED); RESTRICTED: only with CAP_NET_ADMIN.
 */
#ifndef CCBPF_CONTROLLERS_H
#define CCBPF_CONTROLLERS_H

#define CCBPF_CONTROLLERS(X)                                                                    \
	X(1, tcp_lp, OPEN, "low priority, yields to rising one-way delay",                      \
	  "TCP-LP, Kuzmanovic and Knightly 2003/2006")                                          \
	X(2, tcp_lp_ecn, OPEN, "low priority, yields to ECN marks set at a small queue",        \
	  "TCP-LP/ECN, the same paper, section IV-A")                                           \
	X(3, hstcp_lp, OPEN, "low priority on fast long paths, yields to rising one-way delay", \
	  "HSTCP-LP, Kuzmanovic, Knightly and Cottrell 2004; RFC 3649")                         \
	X(4, tcpw_lp, OPEN,                                                                     \
	  "low priority, yields to a queue of other flows, survives random loss",               \
	  "TCPW-LP, Shimonishi, Hama, Sanadidi, Gerla and Murase 2006")                         \
	X(5, ltcp, RESTRICTED, "fast on long paths: a window of several virtual layers",        \
	  "LTCP, Bhandarkar, Jain and Reddy 2006")                                              \
	X(6, nf_tcp, OPEN,                                                                      \
	  "low priority, yields to early ECN marks, takes what its chirps find free",           \
	  "NF-TCP, Arumaithurai, Fu and Ramakrishnan 2011")                                     \
	X(7, le, OPEN, "low priority, yields to a queue that stays after it drained its own",   \
	  "ours, after TCP-LP and TCPW-LP; RFC 8622 for the name")

/* Controllers whose signal is a mark: ECN should be agreed. */
#define CCBPF_ECN_CONTROLLERS(X) \
	X(tcp_lp_ecn)            \
	X(nf_tcp)

/* Controllers whose chirps need an echo of each packet's mark (RFC 3168), which AccECN does not
 * give. */
#define CCBPF_ECHO_CONTROLLERS(X) X(nf_tcp)

/* Programs that hold back receive windows. They are no controllers, but their flows have records
 * too. X(number, name, title) */
#define CCBPF_RECEIVERS(X) X(13, rx_le, "what is received in the background")

enum ccbpf_kind {
	CCBPF_KIND_NONE = 0,
#define X(number, name, ...) CCBPF_KIND_##name = number,
	CCBPF_CONTROLLERS(X)
	CCBPF_RECEIVERS(X)
#undef X
		CCBPF_KINDS = 16, /* slots of the `stats` map, with room for more controllers */
};

#endif
