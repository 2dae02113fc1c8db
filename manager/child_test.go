package manager_test

import "fmt"

func child(run string) int {
	fmt.Println(run)
	return 1
}
