#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print what is larger than usual: alarms to think about, not limits.  Always succeeds.
cd "$(dirname "$0")/.." || exit 1

# Kernel style: the body of a function is between a "{" and a "}" in the first column.
find include src load cli python tests examples -name '*.[ch]' | sort | xargs awk '
function file_end() {
	if (lines > 800)
		printf "%s: %d lines\n", file, lines
	if (file ~ /^(src|load|cli)\// && file !~ /(table\.c|\/dl\/.*|\.h)$/ && conditions * 1000 > 2 * lines)
		printf "%s: %d #if in %d lines\n", file, conditions, lines
	if (file ~ /^(src|load|cli)\/.*\.c$/ && lines > 60 && !heading)
		printf "%s: does not say at the top what it owns\n", file
	if (file ~ /^(src|load|cli)\/.*\.c$/ && code > 100 && (comments < 0.05 * code || comments > 0.4 * code))
		printf "%s: %d lines of comment on %d of code\n", file, comments, code
}
FNR == 1 {
	if (file)
		file_end()
	file = FILENAME
	lines = conditions = comments = code = heading = begin = 0
}
{ lines++ }
length($0) > 120 { printf "%s:%d: %d columns\n", FILENAME, FNR, length($0) }
/^\/\*/ && FNR > 1 && FNR < 6 { heading = 1 }
/^[ \t]*(\/\*|\*|\/\/)/ { comments++; next }
/^[ \t]*#[ \t]*if/ { conditions++ }
/[^ \t]/ { code++ }
/^[a-z].*\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
/^{/ { begin = FNR }
/^}/ {
	if (begin) {
		total++
		if (FNR - begin - 1 > 60)
			printf "%s:%d: %s() has %d lines\n", FILENAME, begin, name, FNR - begin - 1
	}
	begin = 0
}
END {
	if (file)
		file_end()
	printf "%d functions looked at\n", total
}'
