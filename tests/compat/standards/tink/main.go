// Command tinkfile opens and seals a file with Tink's library for Go.
//
//	tinkfile open KEYSET AAD < sealed > plain
//	tinkfile seal KEYSET AAD < plain > sealed
//
// KEYSET is a file with a keyset in the clear, as JSON; AAD is hex.
package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/streamingaead"
)

func run(act, place, associated string) error {
	aad, err := hex.DecodeString(associated)
	if err != nil {
		return err
	}
	file, err := os.Open(place)
	if err != nil {
		return err
	}
	defer file.Close()
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(file))
	if err != nil {
		return err
	}
	primitive, err := streamingaead.New(handle)
	if err != nil {
		return err
	}
	if act == "seal" {
		writer, err := primitive.NewEncryptingWriter(os.Stdout, aad)
		if err != nil {
			return err
		}
		if _, err := io.Copy(writer, os.Stdin); err != nil {
			return err
		}
		return writer.Close()
	}
	reader, err := primitive.NewDecryptingReader(os.Stdin, aad)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, reader)
	return err
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: tinkfile open|seal KEYSET AAD")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
