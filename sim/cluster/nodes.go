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
	Group int // its place in the cluster's groups
}

// leastWidth is the width of the numbers in small clusters, as administrators write them: n01.
const leastWidth = 2

// Nodes lists all servers, ascending in their names: n01, n02 and so on, or with the name of the group in front.
// Numbers are as wide as the largest one behind the same name, so that they ascend, too. Groups of one name are
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

// prefix is what stands before the number. It never ends in a digit, so that no two servers have the same name.
func (g Group) prefix() string {
	if g.Name == "" {
		return "n"
	}
	if last := g.Name[len(g.Name)-1]; last >= '0' && last <= '9' {
		return g.Name + "-"
	}
	return g.Name
}
