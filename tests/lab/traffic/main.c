// SPDX-License-Identifier: GPL-2.0-only
/*
 * traffic: what the experiments put beside a bulk flow.
 *
 *   traffic udp-sink PORT                  counts what arrives
 *   traffic udp-send ADDR PORT             constant, Poisson, on/off, RTP-like
 *   traffic web-server PORT                sends what each connection asks for
 *   traffic web-client ADDR PORT           pages of objects (TCP-LP, IV-B)
 *   traffic fetch ADDR PORT                files of given sizes at given times
 *   traffic handover LOCAL-PORT NAME       another controller for a running flow
 *
 * `traffic COMMAND --help` says the options. ADDR is an IPv4 or IPv6 address.
 *
 * Determinism. The path of a run (when which packet or object of which size is
 * due) depends on the arguments alone and is known beforehand: --dry-run prints
 * it. Random numbers are our own (random.c), the same on every machine. Times
 * are absolute on CLOCK_MONOTONIC, so a late wake-up delays one packet and not
 * those after it. One thread, epoll and timerfd.
 *
 * UDP. Packet n of udp-send is due at n times the gap (size * 8 / rate; or the
 * sum of n exponential gaps of that mean). With --square that clock stands still
 * while the wave is off, so that the rate over whole periods is exact however
 * few packets a period has. A packet carries its number and the time when it
 * left (struct packet). One that its own host does not take (a full qdisc is not
 * told, a full socket buffer is) is `refused`, keeps its number and is not
 * repeated. A packet that is more than 1 ms late is `late`; late ones leave at
 * twice the rate, in bursts of at most --burst.
 *
 * udp-sink adds up over its senders: `lost` are numbers missing below the highest
 * that came (what is lost after the last arrival shows only beside udp-send's
 * own count), `reordered` came after a higher number (RFC 4737), `duplicates`
 * came a second time, at most 131072 numbers back. `socket_drops` came here and found
 * the socket's buffer full: they are among `lost` and no fault of the path.
 * The one-way delay of a packet is arrival minus sent; `variation_s` is what is
 * above the smallest, `delay_min_s` that smallest: true on one machine, where
 * both ends have one clock, and meaningless on two. Percentiles are exact up to
 * 2^20 packets; then of each second, fourth … packet.
 *
 * The web model (TCP-LP paper, IV-B). A session asks for pages of ten objects, a
 * connection each: "GET <bytes>\n", the answer is that many bytes and the end.
 * Gaps between pages and between the objects of one are exponential with means
 * of 1 s and 1 ms, sizes Pareto of shape 1.2; the gap before a page counts from
 * the last request of the page before, whatever the network does. So
 * nothing of the path depends on it (footnote 9). With --think the gap begins
 * when the page is complete, as a reader's: the sizes and gaps are still the
 * same, the times are not. An object's response time is from connect() to its
 * last byte. Bins of sizes grow by 10 % (footnote 8); one of them is around
 * 10 kB, 9535 … 10488 bytes. The paper does not print the mean size; 12 kB is
 * ours: one session then offers 0.95 Mbit/s.
 *
 * Bounds. A day, 8192 connections at once (less where the limit of open files is
 * hard), 10^6 objects, 64 UDP senders, 10^5 intervals. What goes beyond waits
 * (a server's connections), is counted (foreign packets, failed objects), is
 * left out (later intervals) or ends the program with an error (objects).
 *
 * handover finds the established connection with that local port in its network
 * namespace, takes the socket from the process that has it (pidfd_getfd, Linux
 * 5.6), and sets TCP_CONGESTION: what the process could have done itself.
 *
 * Output. JSON on stdout, one object on the last line, at the end or upon
 * SIGTERM; udp-sink and web-server say {"ready": …} on a line of its own when
 * they can be reached. Times are in seconds since `zero_ns` on CLOCK_MONOTONIC.
 * Exit codes: 0, 1 failure (also: every object failed), 2 usage.
 */
#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command commands[] = {
	{ "udp-sink", "PORT", "Counts packets of udp-send: losses, reorderings, delays",
	  run_udp_sink },
	{ "udp-send", "ADDR PORT --rate BITS --size BYTES --for S",
	  "Sends UDP packets: constant, Poisson, on and off", run_udp_send },
	{ "web-server", "PORT", "Answers \"GET <bytes>\" with that many bytes on each connection",
	  run_web_server },
	{ "web-client", "ADDR PORT --for S",
	  "Asks a web-server for pages of objects: response times by size", run_web_client },
	{ "fetch", "ADDR PORT --bytes N[,N…] --every S --count N",
	  "Asks a web-server for files of given sizes: response times", run_fetch },
	{ "handover", "LOCAL-PORT NAME",
	  "Gives the running connection with that local port another controller", run_handover },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *out)
{
	fprintf(out, "usage: traffic COMMAND …\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-10s %s\n             %s.\n", commands[i].name,
			commands[i].arguments, commands[i].summary);
	fprintf(out, "\n`traffic COMMAND --help` says its options.\n");
}

static int finish(int code)
{
	if (fflush(stdout) || ferror(stdout)) {
		warn("write the result: standard output does not take it");
		return EXIT_FAILURE;
	}
	return code;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		help(stdout);
		return finish(EXIT_SUCCESS);
	}
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		name_command(commands[i].name);
		return finish(commands[i].run(&commands[i], argc - 1, argv + 1));
	}
	usage("%s: no such command", argv[1]);
}
