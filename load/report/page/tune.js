/* SPDX-License-Identifier: Apache-2.0 */
/* How `sluice tune` found its settings. */

function addTune(r) {
	if (r.tune)
		section('tune', 'Tuned settings', {class: 'full'});
}
