package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Node is one server.
type Node struct {
	Name  string
	Group int // index in Cluster.Groups
}

// leastWidth is the least width of the numbers in names, as in n01.
const leastWidth = 2

// Nodes lists all servers, ascending in name: n01, n02 and so on, or with the name of their group instead of n. All
// numbers after the same name have equal width, so that names sort as the numbers do. Groups of the same name are
// numbered as one.
func (c Cluster) Nodes() []Node {
	servers := make(map[string]int)
	for _, g := range c.Groups {
		servers[g.prefix()] += g.Servers
	}
	nodes := make([]Node, 0, c.Servers())
	numbered := make(map[string]int)
	for i, g := range c.Groups {
		prefix := g.prefix()
		width := max(leastWidth, len(strconv.Itoa(servers[prefix])))
		for range g.Servers {
			numbered[prefix]++
			nodes = append(nodes, Node{fmt.Sprintf("%s%0*d", prefix, width, numbered[prefix]), i})
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// prefix is the part of a name before the number. It never ends in a digit, so that the number cannot be misread and
// all names are different.
func (g Group) prefix() string {
	if g.Name == "" {
		return "n"
	}
	if last := g.Name[len(g.Name)-1]; last >= '0' && last <= '9' {
		return g.Name + "-"
	}
	return g.Name
}
