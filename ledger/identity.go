package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// identityKey is in the meta bucket; files of early versions lack it.
var identityKey = []byte("identity")

// Identity returns a random name that belongs to this file alone and never changes. It is drawn at the first call.
// Since only one process can have the file open, any earlier daemon with this name is dead.
func (b *Book) Identity() (string, error) {
	var identity string
	err := b.db.Update(func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if identity = string(meta.Get(identityKey)); identity != "" {
			return nil
		}
		drawn := make([]byte, 6)
		rand.Read(drawn) // never fails
		identity = hex.EncodeToString(drawn)
		return meta.Put(identityKey, []byte(identity))
	})
	if err != nil {
		return "", fmt.Errorf("identity in the ledger: %w", err)
	}
	return identity, nil
}
