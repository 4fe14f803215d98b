/* SPDX-License-Identifier: Apache-2.0 */
/* The page from top to bottom. */

applyTheme();
addTitle();
addComparison();
addWarnings();
summaries.forEach(addSummary);
traces.forEach(addTrace);
kvResults.forEach(addKvNotes);
replayResults.forEach(addReplayNotes);
addCards();
kvResults.forEach(addTiers);
results.forEach(addFlows);
addKvTime();
addKvLatency();
kvResults.forEach(addHealth);
addReplayTime();
addReplayClasses();
addStores();
addObjects();
results.filter((r) => r.ranks).forEach(addRanks);
ckptResults.forEach(addCheckpoints);
weightsResults.forEach(addWeights);
results.forEach(addTune);
results.filter(isGrid).forEach(addHeat);
results.forEach(addTop);
if (plainSeries.length) {
	addBandwidth();
	addLatency();
}
addDistribution();
addTime();
addFio();
addTable();
addFacts();
