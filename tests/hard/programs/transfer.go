// SPDX-License-Identifier: GPL-2.0-only

// A static program with Go's own network stack: transfer dial|listen ADDRESS FILE sends the file over one connection;
// with - in its place it receives until the other end is done.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func connection(how, address string) (net.Conn, error) {
	if how == "dial" {
		return net.Dial("tcp", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	return listener.Accept()
}

func receive(how, address string) error {
	from, err := connection(how, address)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, from)
	return err
}

func send(how, address, name string) error {
	if name == "-" {
		return receive(how, address)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	to, err := connection(how, address)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, file); err != nil {
		return err
	}
	return to.Close()
}

func main() {
	if err := send(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
