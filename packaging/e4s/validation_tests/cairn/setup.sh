#!/bin/bash
. ../../setup.sh
spackLoadUnique cairn
