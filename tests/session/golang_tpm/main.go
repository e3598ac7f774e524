// What Go programs do with the TPM of an Azure VM, by both APIs of go-tpm: "vtpm NONCE" prints the paravisor's report,
// the message and signature of a quote, and the registers, in hex.
package main

import (
	"encoding/hex"
	"fmt"
	"log"
	"os"

	legacy "github.com/google/go-tpm/legacy/tpm2"
	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
)

const (
	device    = "/dev/tpmrm0"
	report    = 0x01400001
	key       = 0x81000003
	registers = 24
	atOnce    = 8
)

func main() {
	nonce, err := hex.DecodeString(os.Args[1])
	check(err)
	collect(nonce)
	readRegisters()
}

func collect(nonce []byte) {
	tpm, err := legacy.OpenTPM(device)
	check(err)
	defer tpm.Close()
	hcl, err := legacy.NVReadEx(tpm, report, legacy.HandleOwner, "", 0)
	check(err)
	all := legacy.PCRSelection{Hash: legacy.AlgSHA256}
	for register := 0; register < registers; register++ {
		all.PCRs = append(all.PCRs, register)
	}
	message, signature, err := legacy.Quote(tpm, key, "", "", nonce, all, legacy.AlgNull)
	check(err)
	fmt.Printf("%x\n%x\n%x\n", hcl, message, []byte(signature.RSA.Signature))
}

func readRegisters() {
	tpm, err := linuxtpm.Open(device)
	check(err)
	defer tpm.Close()
	for first := uint(0); first < registers; first += atOnce {
		var some []uint
		for register := first; register < first+atOnce; register++ {
			some = append(some, register)
		}
		bank := tpm2.TPMSPCRSelection{Hash: tpm2.TPMAlgSHA256, PCRSelect: tpm2.PCClientCompatible.PCRs(some...)}
		read := tpm2.PCRRead{PCRSelectionIn: tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{bank}}}
		values, err := read.Execute(tpm)
		check(err)
		for _, value := range values.PCRValues.Digests {
			fmt.Printf("%x", value.Buffer)
		}
	}
	fmt.Println()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
