package manager

// Namespace answers the transaction as one of another namespace sees it: what it
// saves, loads and lists is of that namespace, and is committed or not with all
// else. The name "" is the default namespace; with a name that can't be one every
// call fails.
func (t *Tx) Namespace(name string) *Tx {
	in := &Tx{inner: t.inner, manager: t.manager.Namespace(name), all: t.all}
	in.over.Store(t.over.Load())
	return in
}
