# SPDX-License-Identifier: Apache-2.0
"""Shell completion from the option tables; used by mkman.py."""


def names(opt):
    return ['--' + opt['name']] + ['--' + a for a in opt['aliases']] + \
        (['-' + opt['letter']] if opt['letter'] else [])


def takes_file(opt):
    return opt['kind'] in ('string', 'list')


def bash(commands):
    top = ' '.join([c['name'] for c in commands] + ['help', '--help', '--version', '--dump-options'])
    out = ['# bash completion of sluice; made by tools/mkman.py', '_sluice()', '{',
           '\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=',
           '\tCOMPREPLY=()',
           '\tif ((COMP_CWORD == 1)) || [[ $prev == help ]]; then',
           f'\t\tmapfile -t COMPREPLY < <(compgen -W "{top}" -- "$cur")', '\t\treturn', '\tfi',
           '\tcase ${COMP_WORDS[1]} in']
    for cmd in commands:
        out += [f'\t{cmd["name"]})', '\t\tcase $prev in']
        for opt in cmd['options']:
            if opt['kind'] == 'choice':
                out.append(f'\t\t{"|".join(names(opt))}) words="{" ".join(opt["choices"])}" ;;')
        flags = ' '.join(n for o in cmd['options'] for n in names(o)) + ' --help'
        out += ['\t\tesac', f'\t\t[[ -z $words && $cur == -* ]] && words="{flags}"', '\t\t;;']
    out += ['\tesac', '\t[[ $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
            '}', 'complete -o default -F _sluice sluice', '']
    return '\n'.join(out)


def zsh(commands):
    def quote(text):
        return text.replace("'", "'\\''").replace('[', '\\[').replace(']', '\\]').replace(':', '\\:')

    out = ['#compdef sluice', '# made by tools/mkman.py', '_sluice() {', '\tlocal -a commands=(']
    out += [f"\t\t'{c['name']}:{quote(c['summary'])}'" for c in commands]
    out += ["\t\t'help:options of a command'", '\t)',
            '\tif ((CURRENT == 2)); then', "\t\t_describe command commands", '\t\treturn', '\tfi',
            '\tlocal cmd=$words[2]', '\tshift words', '\t((CURRENT--))', '\tcase $cmd in']
    for cmd in commands:
        out += [f'\t({cmd["name"]})', '\t\t_arguments -s \\']
        for opt in cmd['options']:
            value = {'flag': '', 'choice': ':word:(' + ' '.join(opt.get('choices', [])) + ')'}.get(
                opt['kind'], f':{quote(opt["meta"] or "")}:' + ('_files' if takes_file(opt) else ' '))
            for name in names(opt):
                long = '=' if name.startswith('--') and value else ''
                out.append(f"\t\t\t'*{name}{long}[{quote(opt['help'])}]{value}' \\")
        out += ["\t\t\t'--help[show the options]' '*:file:_files' ;;"]
    return '\n'.join(out + ['\t(help) _describe command commands ;;', '\tesac', '}', '_sluice "$@"', ''])


def fish(commands):
    def quote(text):
        return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"

    out = ['# made by tools/mkman.py']
    for cmd in commands:
        out.append(f'complete -c sluice -n __fish_use_subcommand -f -a {cmd["name"]} '
                   f'-d {quote(cmd["summary"])}')
        for opt in cmd['options']:
            line = f"complete -c sluice -n '__fish_seen_subcommand_from {cmd['name']}'"
            for alias in [opt['name']] + opt['aliases']:
                line += f' -l {alias}'
            line += f' -s {opt["letter"]}' if opt['letter'] else ''
            line += {'flag': '', 'choice': ' -x -a ' + quote(' '.join(opt.get('choices', [])))}.get(
                opt['kind'], ' -r' if takes_file(opt) else ' -x')
            out.append(line + f' -d {quote(opt["help"])}')
    return '\n'.join(out + [''])
