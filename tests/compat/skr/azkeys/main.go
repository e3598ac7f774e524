// Azure's SDK for Go: makes a key and releases it, with settings on standard input and outcomes on standard output.
// Names under "localhost" lead to this machine, since not every resolver says so.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"
)

type settings struct {
	Vault, CA, Token, Policy, Target, Expired string
	Algorithms                                []*string
}

type outcome struct {
	Value  string `json:"value,omitempty"`
	Status int    `json:"status,omitempty"`
	Text   string `json:"text,omitempty"`
}

type made struct {
	ID string `json:"id"`
	N  string `json:"n"`
}

type credential struct {
	token  string
	scopes []string
}

func (c *credential) GetToken(_ context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.scopes = options.Scopes
	return azcore.AccessToken{Token: c.token, ExpiresOn: time.Now().Add(10 * time.Minute)}, nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func transport(ca string) *http.Client {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(must(os.ReadFile(ca))) {
		panic("no certificate in " + ca)
	}
	dialer := net.Dialer{}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port := must2(net.SplitHostPort(address))
		if strings.HasSuffix(host, ".localhost") {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return dialer.DialContext(ctx, network, address)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

func must2(first, second string, err error) (string, string) {
	if err != nil {
		panic(err)
	}
	return first, second
}

func failed(err error) outcome {
	var response *azcore.ResponseError
	if errors.As(err, &response) {
		return outcome{Status: response.StatusCode, Text: err.Error()}
	}
	return outcome{Text: err.Error()}
}

func main() {
	var given settings
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	ctx, token := context.Background(), &credential{token: given.Token}
	options := &azkeys.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport(given.CA)}}
	client := must(azkeys.NewClient(given.Vault, token, options))

	kind, exportable := azkeys.KeyTypeRSAHSM, true
	created := must(client.CreateKey(ctx, "from-go", azkeys.CreateKeyParameters{
		Kty:           &kind,
		KeyAttributes: &azkeys.KeyAttributes{Exportable: &exportable},
		ReleasePolicy: &azkeys.KeyReleasePolicy{EncodedPolicy: []byte(given.Policy)},
	}, nil))

	nonce := "a nonce"
	release := func(version, target string, algorithm *string) outcome {
		asked := azkeys.ReleaseParameters{TargetAttestationToken: &target, Nonce: &nonce}
		if algorithm != nil {
			enc := azkeys.KeyEncryptionAlgorithm(*algorithm)
			asked.Algorithm = &enc
		}
		found, err := client.Release(ctx, "from-go", version, asked, nil)
		if err != nil {
			return failed(err)
		}
		return outcome{Value: *found.Value}
	}
	released := []outcome{}
	for _, algorithm := range given.Algorithms {
		for _, version := range []string{"", created.Key.KID.Version()} {
			released = append(released, release(version, given.Target, algorithm))
		}
	}
	refused := release("", given.Expired, nil)
	_, err := client.GetKey(ctx, "nosuch", "", nil)
	found := map[string]any{
		"scopes":   token.scopes,
		"made":     made{ID: string(*created.Key.KID), N: base64.StdEncoding.EncodeToString(created.Key.N)},
		"released": released,
		"refused":  refused,
		"missing":  failed(err),
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
