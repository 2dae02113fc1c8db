package manager

// Place answers where the store keeps a key: in its reserved category, or on the
// file tier in the category that the key's first segment names.
func (s *Store) Place(key string) (category, name string) {
	p, name := s.at(key)
	if p.route == nil {
		return "", name
	}
	return p.route.category, name
}
