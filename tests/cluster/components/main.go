// SPDX-License-Identifier: GPL-2.0-only

// The parts of a Kubernetes cluster in one program, each as it is: `components NAME ARGUMENT...`. See ../cluster.py.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 cmd.NewDefaultKubectlCommand,
}

func main() {
	os.Args = os.Args[1:]
	if len(os.Args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: components NAME ARGUMENT...")
		os.Exit(2)
	}
	if os.Args[0] == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := commands[os.Args[0]]
	if !known {
		fmt.Fprintf(os.Stderr, "components: there is no %s\n", os.Args[0])
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
