package figure

import (
	"fmt"
	"image/color"
)

// Shade is a colour as written in an SVG, and the colour that replaces it on a dark page.
type Shade struct{ Light, Dark string }

// Shades lists the colours that are replaced on a dark page. The other tints, and the text on them, stay as they are.
func Shades() []Shade {
	return []Shade{
		shade(paper, "#16191d"), shade(ink, "#e8e8e8"), shade(muted, "#b4b4b4"), shade(rule, "#353a40"),
		shade(grey, "#a3a3a3"), shade(orange, "#f0b63d"), shade(blue, "#4fa8dc"), shade(green, "#2fc79b"),
		shade(purple, "#dd9bc0"), shade(vermillion, "#f0823a"), shade(sky, "#8accf2"), shade(black, "#d0d0d0"),
		shade(tints[0].colour, "#4b86cf"), shade(tints[3].colour, "#55a57b"), shade(tints[5].colour, "#9f83cb"),
	}
}

func shade(light color.NRGBA, dark string) Shade {
	return Shade{fmt.Sprintf("#%02X%02X%02X", light.R, light.G, light.B), dark}
}
