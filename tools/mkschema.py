#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the C file that holds the JSON Schemas of what `penstock report` and `compare` read.

    tools/mkschema.py --out schemas.c NAME=FILE...

Each becomes a string report_schema_NAME, without the spaces.
"""
import argparse
import json

from mkpage import c_string


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--out', required=True)
    p.add_argument('schemas', nargs='+', metavar='NAME=FILE')
    args = p.parse_args()
    with open(args.out, 'w', encoding='ascii') as out:
        out.write('/* Made by tools/mkschema.py. */\n#include "load/report/result/schema.h"\n')
        for name, file in (s.split('=', 1) for s in args.schemas):
            with open(file, encoding='utf-8') as f:
                text = json.dumps(json.load(f), separators=(',', ':'))
            out.write(f'\nconst char report_schema_{name}[] =\n{c_string(text)};\n')


if __name__ == '__main__':
    main()
