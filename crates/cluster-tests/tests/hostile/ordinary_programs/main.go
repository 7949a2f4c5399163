package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// Goroutines, a file that it wants on the disk, and a child.
func main() {
	parts := make(chan int, 100)
	var group sync.WaitGroup
	for i := 0; i < 100; i++ {
		group.Add(1)
		go func(part int) {
			defer group.Done()
			parts <- part
		}(i)
	}
	group.Wait()
	close(parts)
	sum := 0
	for part := range parts {
		sum += part
	}
	file, err := os.Create("sum")
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(file, sum)
	if err := file.Sync(); err != nil {
		panic(err)
	}
	said, err := exec.Command("cat", "sum").Output()
	fmt.Print(string(said), err, "\n")
}
