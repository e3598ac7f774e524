// The API server of Kubernetes. It has to be built inside a module that names its parts by version: its own module names
// them by folders, which is why "go install" refuses it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
