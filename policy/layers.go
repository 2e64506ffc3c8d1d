package policy

// The planner in layers: each is the board, or the layer that it embeds, with more that can be done to it, so that
// calls go one way and the compiler sees to that. A layer holds nothing of its own: all that a round knows is on the
// board.
//
//	board         who sits where with how much, what is left; classes of jobs and their menus
//	constraints   what keeps a job from a server or a size: quotas, reservations, nodes that are kept; what a change nets
//	layout        a snapshot laid out on the board          turns        the policy's order
//	placement     a place where nobody is disturbed
//	preemption    room made for a job: by those that give back, by those that leave; nodes kept and cleared
//	recall        room made for jobs that no plan decides on, by what was lent
//	arrangement   which of the servers those get that start
//	sizing        what the least sizes left over, and restarts that are worth it
//	appraisal     what each server could gain by an exchange     exchanging   running jobs exchange places
//	allocation    the passes of a round, in their order; repack and refill, which fill whole servers, are two of them
//	explanation   why a job waits                           lookahead    who is next
type (
	constraints struct{ *board }
	layout      struct{ constraints }
	turns       struct{ constraints }
	placement   struct{ constraints }
	preemption  struct{ placement }
	recall      struct{ preemption }
	arrangement struct{ placement }
	sizing      struct{ preemption }
	appraisal   struct{ preemption }
	exchanging  struct{ appraisal }
	allocation  struct{ preemption }
	explanation struct{ constraints }
	lookahead   struct{ constraints }
)
