#!/bin/sh
# refused.sh COMPILER MODULES: what cannot be kept is refused as a program is compiled, with the warning
# for temporaries as an error.
set -eu
compiler=$1 modules=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# compiles ARRAY: whether a program that adds the array compiles
compiles() {
  cat >"$work/program.f90" <<END
program adds
  use cairn
  implicit none
  type(cairn_state) :: state
  type :: point
    real :: x, y
  end type
  type(point), target :: points(3)
  character(len=4), target :: words(3)
  real, target :: u(4)
  integer, parameter :: constant = 3
  call state%add("u", $1)
end program
END
  "$compiler" -std=f2018 -Werror=array-temporaries -I"$modules" -c -o /dev/null "$work/program.f90" >"$work/said" 2>&1
}
for array in u 'u(1:3:2)' 'points(2)%x' words; do
  compiles "$array" || { cat "$work/said"; echo "FAILED: refused: $array"; exit 1; }
done
for array in 'u + 1' '(u)' 'constant' '2.5' 'u([1, 3])' 'sin(u)' '[1, 2]' '"text"' 'points%x' 'words(:)(2:3)'; do
  if compiles "$array"; then
    echo "FAILED: accepted: $array"
    exit 1
  fi
  grep -qi 'array temporary\|no matching specific binding\|definab\|variable definition context\|must be a variable\|vector subscript\|INTENT' "$work/said" ||
    { cat "$work/said"; echo "FAILED: not the error expected for $array"; exit 1; }
done
