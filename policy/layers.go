package policy

// The planner in layers. Each is the board, or the layer that it embeds, with more operations, so that calls go one way
// and the compiler checks that. A layer holds nothing of its own: all that a round knows is on the board.
//
//	board         which job is where with how much, what is left; classes of jobs and their menus
//	constraints   what keeps a job from a server or a size: quotas, reservations, kept nodes; what a change nets
//	layout        a snapshot put on the board               turns        the policy's order
//	placement     places where no job is disturbed
//	preemption    room made for a job, by jobs that give back or leave; nodes kept and cleared
//	recall        room made for unmanaged jobs, by calling loans back
//	arrangement   which servers the starting jobs get
//	sizing        what the least sizes left over, and restarts that are worth it
//	appraisal     what each server could gain by an exchange     exchanging   running jobs exchange places
//	allocation    the passes of a round, in order; repack and refill, which fill whole servers, are two of them
//	explanation   why a job waits                           lookahead    which jobs are next
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
