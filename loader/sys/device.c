// SPDX-License-Identifier: GPL-2.0-only
/* A network device: see device.h. */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/device.h"

#define ETH_HEADER_BYTES 14

uint32_t device_netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
}

const char *device_name(uint32_t ifindex)
{
	static char name[IF_NAMESIZE];

	return if_indextoname(ifindex, name);
}

uint32_t device_sent(const char *name)
{
	const struct rtnl_link_stats *stats;
	struct ifaddrs *all = NULL;
	uint32_t sent = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		stats = at->ifa_data;
		if (stats && at->ifa_addr && at->ifa_addr->sa_family == AF_PACKET &&
		    !strcmp(at->ifa_name, name))
			sent = stats->tx_packets;
	}
	freeifaddrs(all);
	return sent;
}

/* bit/s of the link, 0: not known */
static uint64_t link_rate_bps(int fd, struct ifreq *request)
{
	struct ethtool_cmd command = { .cmd = ETHTOOL_GSET };
	uint32_t mbps;

	request->ifr_data = (char *)&command;
	if (ioctl(fd, SIOCETHTOOL, request))
		return 0;
	mbps = ethtool_cmd_speed(&command);
	return mbps == (uint32_t)SPEED_UNKNOWN ? 0 : mbps * 1000000ULL;
}

static void read_link(int fd, const char *name, struct device *out)
{
	struct ifreq request = { 0 };
	uint32_t header = 0;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFHWADDR, &request) == 0 &&
	    (request.ifr_hwaddr.sa_family == ARPHRD_ETHER ||
	     request.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK))
		header = ETH_HEADER_BYTES;
	if (ioctl(fd, SIOCGIFMTU, &request) == 0)
		out->packet_bytes = request.ifr_mtu + header;
	out->rate_bps = link_rate_bps(fd, &request);
}

int device_find(const char *name, struct device *out)
{
	int fd;

	*out = (struct device){ .netns = device_netns() };
	if (!*name || strlen(name) >= IF_NAMESIZE)
		return -ENODEV;
	out->ifindex = if_nametoindex(name);
	if (!out->ifindex)
		return -ENODEV;
	snprintf(out->name, sizeof(out->name), "%s", name);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	read_link(fd, name, out);
	close(fd);
	return out->packet_bytes ? 0 : -ENODEV;
}

int device_require(const char *what, const char *name, struct device *device)
{
	int err = device_find(name, device);

	if (!err)
		return EXIT_OK;
	if (err != -ENODEV)
		return fail_errno(what, name, err);
	return FAIL(EXIT_FAILED, .what = what, .on = name,
		    .why = "there is no such device in this network namespace",
		    .remedy = "`ip link` shows those that are here");
}
