package backup

// Telling answers the same repository, whose [Repo.Verify] tells fn from time to time
// how far it is; fn must not block.
func (r *Repo) Telling(fn func(Progress)) *Repo {
	same := *r
	same.tell = fn
	return &same
}
