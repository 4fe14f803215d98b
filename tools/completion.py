# SPDX-License-Identifier: Apache-2.0
"""Shell completion from the option tables; used by mkman.py."""


def names(opt):
    return ['--' + opt['name']] + ['--' + a for a in opt['aliases']] + \
        (['-' + opt['letter']] if opt['letter'] else [])


def takes_file(opt):
    return opt['role'] is not None


def top(commands):
    """Commands that are not commands of others."""
    return [c for c in commands if ' ' not in c['name']]


def subs(cmd, commands):
    """The words that may follow a command, to name one of its own: of "trace stat", "stat"."""
    return [c['name'].split()[1] for c in commands if c['name'].startswith(cmd['name'] + ' ')]


def bash(commands):
    first = ' '.join([c['name'] for c in top(commands)] + ['help', '--help', '--help-all', '--version', '--dump-options'])
    out = ['# bash completion of penstock; made by tools/mkman.py', '_penstock()', '{',
           '\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= cmd at=1',
           '\tCOMPREPLY=()',
           '\tif ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ $prev == help ]]; }; then',
           f'\t\tmapfile -t COMPREPLY < <(compgen -W "{first}" -- "$cur")', '\t\treturn', '\tfi',
           '\t[[ ${COMP_WORDS[1]} == help ]] && at=2', '\tcmd=${COMP_WORDS[at]}']
    for cmd in commands:
        if subs(cmd, commands):
            words = subs(cmd, commands)
            out += [f'\tif [[ $cmd == {cmd["name"]} ]]; then',
                    f'\t\t((COMP_CWORD == at + 1)) && [[ $cur != -* ]] && words="{" ".join(words)}"',
                    '\t\t((COMP_CWORD > at + 1)) && case ${COMP_WORDS[at+1]} in',
                    f'\t\t{"|".join(words)}) cmd="$cmd ${{COMP_WORDS[at+1]}}" ;;', '\t\tesac', '\tfi']
    out.append('\tcase $cmd in')
    for cmd in commands:
        out += [f'\t"{cmd["name"]}")', '\t\tcase $prev in']
        for opt in cmd['options']:
            if opt['kind'] == 'choice':
                out.append(f'\t\t{"|".join(names(opt))}) words="{" ".join(opt["choices"])}" ;;')
        flags = ' '.join([n for o in cmd['options'] for n in names(o)] + ['--help', '--help-all'])
        out += ['\t\tesac', f'\t\t[[ -z $words && $cur == -* ]] && words="{flags}"', '\t\t;;']
    out += ['\tesac', '\t[[ $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
            '}', 'complete -o default -F _penstock penstock', '']
    return '\n'.join(out)


def zsh(commands):
    def quote(text):
        return text.replace("'", "'\\''").replace('[', '\\[').replace(']', '\\]').replace(':', '\\:')

    out = ['#compdef penstock', '# made by tools/mkman.py', '_penstock() {', '\tlocal -a commands=(']
    out += [f"\t\t'{c['name']}:{quote(c['summary'])}'" for c in top(commands)]
    out += ["\t\t'help:options of a command'", '\t)',
            '\tif ((CURRENT == 2)); then', "\t\t_describe command commands", '\t\treturn', '\tfi',
            '\tlocal cmd=$words[2]', '\tshift words', '\t((CURRENT--))']
    two = '|'.join(f"'{c['name']}'" for c in commands if c not in top(commands))
    if two:
        out += ['\tif ((CURRENT > 2)); then', '\t\tcase "$cmd $words[2]" in',
                f'\t\t({two}) cmd+=" $words[2]"; shift words; ((CURRENT--)) ;;', '\t\tesac', '\tfi']
    out.append('\tcase $cmd in')
    for cmd in commands:
        out += [f'\t(\'{cmd["name"]}\')', '\t\t_arguments -s \\']
        for opt in cmd['options']:
            value = {'flag': '', 'choice': ':word:(' + ' '.join(opt.get('choices', [])) + ')'}.get(
                opt['kind'], f':{quote(opt["meta"] or "")}:' + ('_files' if takes_file(opt) else ' '))
            for name in names(opt):
                long = '=' if name.startswith('--') and value else ''
                out.append(f"\t\t\t'*{name}{long}[{quote(opt['help'])}]{value}' \\")
        words = ' '.join(subs(cmd, commands))
        one = f"'1:command:({words})' " if words else ''
        out += [f"\t\t\t'--help[show the options used most]' '--help-all[show all options]' {one}'*:file:_files' ;;"]
    return '\n'.join(out + ['\t(help) _describe command commands ;;', '\tesac', '}', '_penstock "$@"', ''])


def fish(commands):
    def quote(text):
        return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"

    def seen(cmd):
        """The condition that this command, and none of its own, is on the line."""
        words = '; and '.join('__fish_seen_subcommand_from ' + w for w in cmd['name'].split())
        others = ' '.join(subs(cmd, commands))
        return quote(words + (f'; and not __fish_seen_subcommand_from {others}' if others else ''))

    out = ['# made by tools/mkman.py']
    for cmd in commands:
        parent, _, word = cmd['name'].rpartition(' ')
        when = seen(next(c for c in commands if c['name'] == parent)) if parent else '__fish_use_subcommand'
        out.append(f'complete -c penstock -n {when} -f -a {word} -d {quote(cmd["summary"])}')
        for opt in cmd['options']:
            line = f"complete -c penstock -n {seen(cmd)}"
            for alias in [opt['name']] + opt['aliases']:
                line += f' -l {alias}'
            line += f' -s {opt["letter"]}' if opt['letter'] else ''
            line += {'flag': '', 'choice': ' -x -a ' + quote(' '.join(opt.get('choices', [])))}.get(
                opt['kind'], ' -r' if takes_file(opt) else ' -x')
            out.append(line + f' -d {quote(opt["help"])}')
    return '\n'.join(out + [''])
