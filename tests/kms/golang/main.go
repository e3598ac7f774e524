// Checks a transparency log with the implementation of Go's checksum database, golang.org/x/mod/sumdb.
//
//	tlogcheck vectors N                     roots and proofs of the first N leaves, as JSON
//	tlogcheck log DIR VKEY [WITNESS…]       a directory of C2SP tlog-tiles: checkpoint, every tile, every entry
//	tlogcheck extends OLD NEW VKEY DIR      that the checkpoint NEW, whose tiles lie in DIR, extends OLD
//	tlogcheck proof PROOF ENTRY VKEY        a C2SP tlog-proof
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tlogcheck:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "vectors":
		return vectors(args[1])
	case len(args) >= 3 && args[0] == "log":
		return checkLog(args[1], args[2], args[3:])
	case len(args) == 5 && args[0] == "extends":
		return checkExtends(args[1], args[2], args[3], args[4])
	case len(args) == 4 && args[0] == "proof":
		return checkProof(args[1], args[2], args[3])
	}
	return errors.New("see the beginning of main.go")
}

// hashes keeps every stored hash of a tree in memory.
type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = h[index]
	}
	return out, nil
}

func vectors(count string) error {
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return err
	}
	var stored hashes
	roots := []string{}
	inclusion := map[string][]string{}
	consistency := map[string][]string{}
	for i := int64(0); i < n; i++ {
		more, err := tlog.StoredHashes(i, []byte(fmt.Sprintf("entry %d", i)), stored)
		if err != nil {
			return err
		}
		stored = append(stored, more...)
		root, err := tlog.TreeHash(i+1, stored)
		if err != nil {
			return err
		}
		roots = append(roots, fmt.Sprintf("%x", root[:]))
		for j := int64(0); j <= i; j++ {
			record, err := tlog.ProveRecord(i+1, j, stored)
			if err != nil {
				return err
			}
			tree, err := tlog.ProveTree(i+1, j+1, stored)
			if err != nil {
				return err
			}
			inclusion[fmt.Sprintf("%d in %d", j, i+1)] = texts(record)
			consistency[fmt.Sprintf("%d to %d", j+1, i+1)] = texts(tree)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"roots": roots, "inclusion": inclusion, "consistency": consistency,
	})
}

func texts(proof []tlog.Hash) []string {
	out := []string{}
	for _, h := range proof {
		out = append(out, fmt.Sprintf("%x", h[:]))
	}
	return out
}

// files reads tiles from a directory laid out as C2SP says, which has no tile height in its paths.
type files string

func (d files) Height() int { return 8 }

func (d files) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, tile := range tiles {
		path := "tile/" + strings.TrimPrefix(tile.Path(), "tile/8/")
		data, err := os.ReadFile(filepath.Join(string(d), path))
		if err != nil {
			return nil, err
		}
		out[i] = data
	}
	return out, nil
}

func (d files) SaveTiles([]tlog.Tile, [][]byte) {}

// cosigner verifies C2SP cosignature/v1, which Go's package does not know.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (c cosigner) Name() string    { return c.name }
func (c cosigner) KeyHash() uint32 { return c.hash }
func (c cosigner) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	signed := fmt.Sprintf("cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), msg)
	return ed25519.Verify(c.key, []byte(signed), sig[8:])
}

func newCosigner(vkey string) (note.Verifier, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return nil, errors.New("malformed witness key")
	}
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 33 || key[0] != 4 {
		return nil, errors.New("malformed witness key")
	}
	sum := sha256.Sum256(append([]byte(parts[0]+"\n"), key...))
	hash := binary.BigEndian.Uint32(sum[:])
	if fmt.Sprintf("%08x", hash) != parts[1] {
		return nil, errors.New("wrong id of a witness key")
	}
	return cosigner{parts[0], hash, ed25519.PublicKey(key[1:])}, nil
}

// open verifies a checkpoint under a log's key and those of witnesses, each of which must have signed.
func open(msg []byte, vkey string, witnesses []string) (tlog.Tree, error) {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return tlog.Tree{}, err
	}
	known := []note.Verifier{verifier}
	for _, text := range witnesses {
		witness, err := newCosigner(text)
		if err != nil {
			return tlog.Tree{}, err
		}
		known = append(known, witness)
	}
	opened, err := note.Open(msg, note.VerifierList(known...))
	if err != nil {
		return tlog.Tree{}, err
	}
	if len(opened.Sigs) != len(known) {
		return tlog.Tree{}, fmt.Errorf("%d of %d signatures", len(opened.Sigs), len(known))
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() || lines[3] != "" {
		return tlog.Tree{}, errors.New("malformed checkpoint")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return tlog.Tree{}, err
	}
	root, err := tlog.ParseHash(lines[2])
	return tlog.Tree{N: size, Hash: root}, err
}

func checkLog(dir, vkey string, witnesses []string) error {
	msg, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		return err
	}
	tree, err := open(msg, vkey, witnesses)
	if err != nil {
		return err
	}
	reader := tlog.TileHashReader(tree, files(dir))
	var done int64
	for done < tree.N {
		tile := tlog.Tile{H: 8, L: -1, N: done / 256, W: int(min64(256, tree.N-done))}
		path := "tile/entries/" + strings.TrimPrefix(tile.Path(), "tile/8/data/")
		bundle, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		for len(bundle) > 0 {
			if len(bundle) < 2 || len(bundle) < 2+int(binary.BigEndian.Uint16(bundle)) {
				return errors.New("malformed bundle")
			}
			end := 2 + int(binary.BigEndian.Uint16(bundle))
			hash := tlog.RecordHash(bundle[2:end])
			proof, err := tlog.ProveRecord(tree.N, done, reader)
			if err != nil {
				return err
			}
			if err := tlog.CheckRecord(proof, tree.N, tree.Hash, done, hash); err != nil {
				return fmt.Errorf("entry %d: %w", done, err)
			}
			bundle = bundle[end:]
			done++
		}
	}
	fmt.Println(tree.N, "entries")
	return nil
}

func min64(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func checkExtends(old, new, vkey, dir string) error {
	var trees [2]tlog.Tree
	for i, path := range []string{old, new} {
		msg, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if trees[i], err = open(msg, vkey, nil); err != nil {
			return err
		}
	}
	proof, err := tlog.ProveTree(trees[1].N, trees[0].N, tlog.TileHashReader(trees[1], files(dir)))
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, trees[1].N, trees[1].Hash, trees[0].N, trees[0].Hash)
}

func checkProof(proofFile, entryFile, vkey string) error {
	text, err := os.ReadFile(proofFile)
	if err != nil {
		return err
	}
	entry, err := os.ReadFile(entryFile)
	if err != nil {
		return err
	}
	head, checkpoint, found := bytes.Cut(text, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	if !found || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" || !strings.HasPrefix(lines[1], "index ") {
		return errors.New("malformed proof")
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return err
	}
	var proof tlog.RecordProof
	for _, line := range lines[2:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return err
		}
		proof = append(proof, hash)
	}
	tree, err := open(checkpoint, vkey, nil)
	if err != nil {
		return err
	}
	return tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(entry))
}
