/* SPDX-License-Identifier: Apache-2.0 */
/* The page from top to bottom. */

applyTheme();
addTitle();
addComparison();
addWarnings();
addCards();
results.forEach(addTune);
results.filter(isGrid).forEach(addHeat);
results.forEach(addTop);
if (plain.length) {
	addBandwidth();
	addLatency();
}
results.forEach(addFlows);
addDistribution();
addTime();
addFio();
addTable();
addFacts();
