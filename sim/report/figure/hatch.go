package figure

import "gonum.org/v1/plot/vg"

// hatch is a pattern of lines in an area.
type hatch int

const (
	noHatch hatch = iota
	risingHatch
	fallingHatch
	crossHatch
	levelHatch
	uprightHatch
	gridHatch
	spineHatch
)

// hatchGap is the distance between lines of a pattern, in points.
const hatchGap = 3.2

// lines returns the strokes of the pattern within a box; nil for noHatch.
func (h hatch) lines(box vg.Rectangle) [][]vg.Point {
	switch h {
	case risingHatch:
		return rising(box)
	case fallingHatch:
		return falling(box)
	case crossHatch:
		return append(rising(box), falling(box)...)
	case levelHatch:
		return level(box)
	case uprightHatch:
		return upright(box)
	case gridHatch:
		return append(level(box), upright(box)...)
	case spineHatch:
		middle := (box.Min.Y + box.Max.Y) / 2
		return [][]vg.Point{{{X: box.Min.X, Y: middle}, {X: box.Max.X, Y: middle}}}
	}
	return nil
}

// level returns horizontal lines within the box.
func level(box vg.Rectangle) (lines [][]vg.Point) {
	for y := box.Min.Y + hatchGap/2; y < box.Max.Y; y += hatchGap {
		lines = append(lines, []vg.Point{{X: box.Min.X, Y: y}, {X: box.Max.X, Y: y}})
	}
	return lines
}

// upright returns vertical lines within the box.
func upright(box vg.Rectangle) (lines [][]vg.Point) {
	for x := box.Min.X + hatchGap/2; x < box.Max.X; x += hatchGap {
		lines = append(lines, []vg.Point{{X: x, Y: box.Min.Y}, {X: x, Y: box.Max.Y}})
	}
	return lines
}

// rising returns lines at 45 degrees, clipped to the box. Their distance along X is 1.4 times the gap (√2), so that
// they are as close to each other as those of the other patterns.
func rising(box vg.Rectangle) (lines [][]vg.Point) {
	height := box.Max.Y - box.Min.Y
	for x := box.Min.X - height + hatchGap/2; x < box.Max.X; x += 1.4 * hatchGap {
		from, to := max(x, box.Min.X), min(x+height, box.Max.X)
		lines = append(lines, []vg.Point{{X: from, Y: box.Min.Y + from - x}, {X: to, Y: box.Min.Y + to - x}})
	}
	return lines
}

// falling returns lines at 45 degrees that fall: the mirror images of rising.
func falling(box vg.Rectangle) [][]vg.Point {
	lines := rising(box)
	for _, line := range lines {
		for i := range line {
			line[i].Y = box.Min.Y + box.Max.Y - line[i].Y
		}
	}
	return lines
}
