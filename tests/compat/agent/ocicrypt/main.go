// Encrypts and decrypts one layer with ocicrypt and the key provider of OCICRYPT_KEYPROVIDER_CONFIG.
//
//	ocicrypt encrypt PROVIDER:KEY < layer > encrypted.json
//	ocicrypt decrypt PROVIDER:    < encrypted.json > layer
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/containers/ocicrypt"
	"github.com/containers/ocicrypt/config"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

type encrypted struct {
	Annotations map[string]string
	Data        []byte
}

func main() {
	run := map[string]func([]byte, []byte) ([]byte, error){"encrypt": encrypt, "decrypt": decrypt}[os.Args[1]]
	input, err := io.ReadAll(os.Stdin)
	if err == nil {
		var output []byte
		if output, err = run(input, []byte(os.Args[2])); err == nil {
			_, err = os.Stdout.Write(output)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func encrypt(layer, provider []byte) ([]byte, error) {
	cc, err := config.EncryptWithKeyProvider([][]byte{provider})
	if err != nil {
		return nil, err
	}
	desc := v1.Descriptor{Digest: digest.FromBytes(layer), Size: int64(len(layer))}
	reader, finish, err := ocicrypt.EncryptLayer(cc.EncryptConfig, bytes.NewReader(layer), desc)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	annotations, err := finish()
	if err != nil {
		return nil, err
	}
	return json.Marshal(encrypted{Annotations: annotations, Data: data})
}

func decrypt(input, provider []byte) ([]byte, error) {
	var found encrypted
	if err := json.Unmarshal(input, &found); err != nil {
		return nil, err
	}
	cc, err := config.DecryptWithKeyProvider([][]byte{provider})
	if err != nil {
		return nil, err
	}
	desc := v1.Descriptor{Annotations: found.Annotations}
	reader, _, err := ocicrypt.DecryptLayer(cc.DecryptConfig, bytes.NewReader(found.Data), desc, false)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}
