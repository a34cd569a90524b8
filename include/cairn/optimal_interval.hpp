#pragma once
/// How long to compute between two saves. All times are in one unit, say seconds.

namespace cairn {

/// The work between two saves that makes the expected time of a long job shortest, if failures come
/// with constant rate 1/mtbf, also during saves and restarts, and each costs the work since the
/// last save. cost: the time that a save takes from the application. The time of a restart does not
/// matter: it is a factor of every choice. Exact for exponential failures: an interval t costs mtbf
/// e^(restart/mtbf) (e^((t + cost)/mtbf) - 1) on average, and this divided by t is least where (1 -
/// t/mtbf) e^(t/mtbf) = e^(-cost/mtbf), so
///
///     t = mtbf (1 + W(-e^(-1 - cost/mtbf)))        (W: Lambert's function, its upper branch)
///
/// For cost « mtbf this is Young's sqrt(2 cost mtbf), and Daly's formula is its series; it needs no
/// condition, stays below mtbf, and tends to mtbf. Throws invalid_argument unless cost ≥ 0 and
/// mtbf > 0; an infinite mtbf gives an infinite interval, cost 0 gives 0.
///
/// No distribution is fitted: if failures follow a Weibull law (k ≥ 0.5) and a save costs up to a
/// tenth of mtbf, this choice loses at most 3.5 %.
double optimal_interval(double cost, double mtbf);

/// J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of
/// the ACM 17 (1974): sqrt(2 cost mtbf).
double young_interval(double cost, double mtbf);

/// J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
/// Future Generation Computer Systems 22 (2006), eq. 37: for cost < 2 mtbf
///     sqrt(2 cost mtbf) (1 + sqrt(cost/(2 mtbf))/3 + cost/(2 mtbf)/9) - cost,   else mtbf.
double daly_interval(double cost, double mtbf);

/// The intervals of saves on the nodes and to the manager's directory, "home" (cairn/tier.hpp).
struct TwoIntervals {
  double interval = 0;  ///< work between two saves, on the nodes or home
  int home_every = 1;   ///< one save in so many goes home
};

/// Returns both. A save on the nodes costs `cost_nodes` and is enough after failures that come once
/// in `mtbf_nodes` on average (of a process, or of a node that parity protects). A save home costs
/// `cost_home` and is needed after failures that come once in `mtbf_home` (of more nodes than
/// parity can restore, or of the whole job). With rates λ, one home save in n saves, and an
/// interval t, a share
///
///     ((n - 1) cost_nodes + cost_home) / (n t) + t λ_nodes / 2 + n t λ_home / 2
///
/// of the time is lost, to first order, which is least where
///
///     n = sqrt((cost_home - cost_nodes) λ_nodes / (cost_nodes λ_home))
///
/// (the two-level case of S. Di, L. Bautista-Gomez, F. Cappello, "Optimization of a multilevel
/// checkpoint model with uncertain execution scales", SC 2014; A. Moody et al., "Design, modeling,
/// and evaluation of a scalable multi-level checkpointing system", SC 2010, have it as a Markov
/// chain). Then t is optimal_interval() of the mean cost and of the rate λ_nodes + n λ_home. Throws
/// invalid_argument as that does; an infinite mean time of home failures gives a home_every of
/// 1,000,000.
TwoIntervals optimal_intervals(double cost_nodes, double mtbf_nodes, double cost_home,
                               double mtbf_home);

/// The share of the time that is lost to saves, work done twice and restarts, if failures are
/// exponential: 1 - interval / (expected time of an interval). ≥ 0, < 1.
double expected_waste(double interval, double cost, double mtbf, double restart);

}  // namespace cairn
