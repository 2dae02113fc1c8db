package filetree

import "sync"

// Seen remembers states of files that are known to be whole, the latest ones.
// The zero value is ready to use.
type Seen struct {
	mu    sync.Mutex
	slots [1024]Ident
}

// Add remembers a state.
func (s *Seen) Add(id Ident) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[id.ino%uint64(len(s.slots))] = id
}

// Has tells whether exactly this state is remembered.
func (s *Seen) Has(id Ident) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots[id.ino%uint64(len(s.slots))].same(id)
}
