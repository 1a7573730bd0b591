# SPDX-License-Identifier: GPL-2.0-only
"""`make cluster`: packaging/kubernetes on a cluster of one node, which is built from the modules of Kubernetes. Not part of `make test`."""
