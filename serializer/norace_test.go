//go:build !race

package serializer_test

const racing = false
