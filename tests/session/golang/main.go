// Command tsmreport gets a report from the kernel through Google's client of configfs-tsm, and prints it in hex: provider,
// report, and for "aux" the certificate table.
package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-configfs-tsm/configfs/linuxtsm"
	"github.com/google/go-configfs-tsm/report"
)

func main() {
	data, err := hex.DecodeString(os.Args[1])
	exitOn(err)
	client, err := linuxtsm.MakeClient()
	exitOn(err)
	aux := len(os.Args) > 2 && os.Args[2] == "aux"
	made, err := report.Get(client, &report.Request{InBlob: data, GetAuxBlob: aux})
	exitOn(err)
	fmt.Println(strings.TrimSpace(made.Provider), hex.EncodeToString(made.OutBlob), hex.EncodeToString(made.AuxBlob))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
