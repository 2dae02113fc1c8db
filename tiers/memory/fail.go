package memory

import "errors"

// failures collects the errors of single items.
type failures struct{ errs []error }

func (f *failures) add(err error) {
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

func (f *failures) join() error { return errors.Join(f.errs...) }
