!> The tensors of tests/support/tensors.txt, which says what they are and who holds what of them. Here
!> dimensions are in Fortran's order: the last one of an array is the first one of the tensor.
module tensor_table
  use, intrinsic :: iso_fortran_env
  use cairn
  implicit none
  private
  public :: table, make_saved, make_wanted, check_restored, rows_here

  integer, parameter :: most_boxes = 16

  !> A tensor, and the part of this rank: boxes in memory with halos, one after the other, or rows.
  type :: held
    character(len=24) :: key = "", kind = "", type = ""
    integer :: dims = 0, number = 0, extents(3) = 1
    integer :: boxes = 0, start(3, most_boxes) = 1, extent(3, most_boxes) = 1
    integer(int8), allocatable :: memory_int8(:)
    integer(int16), allocatable :: memory_int16(:)
    integer(int32), allocatable :: memory_int32(:)
    integer(int64), allocatable :: memory_int64(:)
    real(real32), allocatable :: memory_float32(:)
    real(real64), allocatable :: memory_float64(:)
    complex(real32), allocatable :: memory_complex64(:)
    complex(real64), allocatable :: memory_complex128(:)
    logical(int8), allocatable :: memory_bool(:)
    type(cairn_rows) :: rows
    integer(int64), allocatable :: ids(:)
    character(len=8), allocatable :: texts(:)
    character(len=8) :: text = ""
  end type

  type :: table
    integer :: count = 0, rank = 0, ranks = 1
    type(held), allocatable :: all(:)  ! gfortran 12 finalizes wrongly what is in all(32)
    type(cairn_state) :: state
  end type

contains

  !> Makes the tensors that a rank gives to a save of a step.
  subroutine make_saved(t, path, rank, ranks, step)
    type(table), intent(inout), target :: t
    character(len=*), intent(in) :: path
    integer, intent(in) :: rank, ranks, step
    integer :: i, row
    call read_table(t, path, rank, ranks)
    do i = 1, t%count
      associate (one => t%all(i), slowest => max(1, t%all(i)%dims))
        select case (one%kind)
        case ("rows")
          call add_block(one, slowest, rank, ranks)
        case ("columns")
          call add_block(one, 1, rank, ranks)
        case ("whole")
          call add_block(one, 1, 0, 1)
        case ("last")
          if (rank == ranks - 1) call add_block(one, 1, 0, 1)
        case ("turns")
          do row = rank, one%extents(slowest) - 1, ranks
            call add_row(one, slowest, row)
          end do
        case ("sparse")
          do row = 2*rank, one%extents(slowest) - 1, 2*ranks
            call add_row(one, slowest, row)
          end do
        case ("ragged")
          call add_block(one, slowest, rank, ranks)
        case ("resizable")
          call add_block(one, slowest, 0, 1)
        case ("indexed")
          one%ids = [(int(row, int64), row=rank, one%extents(slowest) - 1, ranks)]
          one%ids = one%ids(size(one%ids):1:-1)
        end select
        call add(t, one, step)
      end associate
    end do
  end subroutine

  !> Makes the tensors that a rank gives to a restore.
  subroutine make_wanted(t, path, rank, ranks)
    type(table), intent(inout), target :: t
    character(len=*), intent(in) :: path
    integer, intent(in) :: rank, ranks
    integer :: i, row
    call read_table(t, path, rank, ranks)
    do i = 1, t%count
      associate (one => t%all(i), slowest => max(1, t%all(i)%dims))
        select case (one%kind)
        case ("ragged", "resizable", "strings")
        case ("indexed")
          one%ids = [(int(row, int64), row=one%extents(slowest)*rank/ranks, &
                      one%extents(slowest)*(rank + 1)/ranks - 1)]
        case ("columns")
          call add_block(one, slowest, rank, ranks)
        case default
          if (one%dims == 0) call add_block(one, 1, 0, 1)
          if (one%dims > 0) call add_block(one, 1, rank, ranks)
        end select
        call add(t, one, -1)
      end associate
    end do
  end subroutine

  !> How many rows this rank has of the `which`th of its ragged tensors; 0: there are no more.
  integer function rows_here(t, which, ragged)
    type(table), intent(in), target :: t
    integer, intent(in) :: which
    integer, intent(out) :: ragged
    integer :: i
    ragged = 0
    rows_here = 0
    do i = 1, t%count
      if (t%all(i)%kind == "ragged") ragged = ragged + 1
      if (t%all(i)%kind /= "ragged" .or. ragged /= which) cycle
      rows_here = int(t%all(i)%rows%count())
      return
    end do
    ragged = 0
  end function

  !> `before` says how many rows of ragged tensors lower ranks have.
  subroutine check_restored(t, step, before)
    type(table), intent(in), target :: t
    integer, intent(in) :: step, before(:)
    integer :: i, k, ragged, first, rows
    ragged = 0
    do i = 1, t%count
      associate (one => t%all(i))
        if (one%kind == "ragged" .or. one%kind == "resizable") then
          first = 0
          rows = int(one%rows%count())
          if (one%kind == "ragged") then
            ragged = ragged + 1
            first = before(ragged)
          end if
          if (one%kind == "resizable" .or. t%rank == t%ranks - 1) &
            call require(first + rows == one%extents(max(1, one%dims)), one)
          call check_rows(one, step, first, rows)
        else if (one%kind == "strings") then
          if (one%dims == 0) call require(one%text == text_of(one, step, 0), one)
          do k = 1, merge(one%extents(1), 0, one%dims > 0)
            call require(one%texts(k) == text_of(one, step, k - 1), one)
          end do
        else
          call check(one, step)
        end if
      end associate
    end do
    if (ragged /= size(before)) error stop "other ragged tensors"
  end subroutine

  subroutine read_table(t, path, rank, ranks)
    type(table), intent(inout), target :: t
    character(len=*), intent(in) :: path
    integer, intent(in) :: rank, ranks
    character(len=300) :: line
    character(len=40) :: shape
    integer :: unit, status, extents(3), d
    t%rank = rank
    t%ranks = ranks
    allocate (t%all(32))
    open (newunit=unit, file=path, action="read")
    do
      read (unit, '(a)', iostat=status) line
      if (status /= 0) exit
      if (line == "" .or. line(1:1) == "#") cycle
      t%count = t%count + 1
      associate (one => t%all(t%count))
        one%number = t%count - 1
        read (line, *) one%key, one%kind, one%type
        line = adjustl(line(index(line, trim(one%type), back=.true.) + len_trim(one%type):))
        shape = line(1:40)
        if (shape == "-") cycle
        one%dims = 1
        do d = 1, len_trim(shape)
          if (shape(d:d) == ",") one%dims = one%dims + 1
        end do
        read (shape, *) extents(:one%dims)
        one%extents(:one%dims) = extents(one%dims:1:-1)
      end associate
    end do
    close (unit)
  end subroutine

  !> A rank's block of a dimension.
  subroutine add_block(one, d, rank, ranks)
    type(held), intent(inout) :: one
    integer, intent(in) :: d, rank, ranks
    one%boxes = one%boxes + 1
    one%extent(:, one%boxes) = one%extents
    one%start(d, one%boxes) = one%extents(d)*rank/ranks + 1
    one%extent(d, one%boxes) = one%extents(d)*(rank + 1)/ranks - one%extents(d)*rank/ranks
  end subroutine

  subroutine add_row(one, d, row)
    type(held), intent(inout) :: one
    integer, intent(in) :: d, row
    call add_block(one, d, 0, 1)
    one%start(d, one%boxes) = row + 1
    one%extent(d, one%boxes) = 1
  end subroutine

  subroutine add(t, one, step)
    type(table), intent(inout) :: t
    type(held), intent(inout), target :: one
    integer, intent(in) :: step
    integer :: k
    if (one%kind == "ragged" .or. one%kind == "resizable") then
      call add_rows_of(t, one, step)
      return
    end if
    if (one%kind == "strings") then
      if (one%dims == 0) then
        one%text = merge(text_of(one, step, 0), "other   ", step >= 0)
        call t%state%add(one%key, one%text)
      else
        one%texts = [(merge(text_of(one, step, k), "other   ", step >= 0), k=0, one%extents(1) - 1)]
        call t%state%add(one%key, one%texts)
      end if
      return
    end if
    select case (one%type)
    case ("int8"); call add_int8(t%state, one, step)
    case ("int16"); call add_int16(t%state, one, step)
    case ("int32"); call add_int32(t%state, one, step)
    case ("int64"); call add_int64(t%state, one, step)
    case ("float32"); call add_float32(t%state, one, step)
    case ("float64"); call add_float64(t%state, one, step)
    case ("complex64"); call add_complex64(t%state, one, step)
    case ("complex128"); call add_complex128(t%state, one, step)
    case ("bool"); call add_bool(t%state, one, step)
    case default; error stop "a type of the table that is not known here"
    end select
  end subroutine

  subroutine check(one, step)
    type(held), intent(in), target :: one
    integer, intent(in) :: step
    select case (one%type)
    case ("int8"); call check_int8(one, step)
    case ("int16"); call check_int16(one, step)
    case ("int32"); call check_int32(one, step)
    case ("int64"); call check_int64(one, step)
    case ("float32"); call check_float32(one, step)
    case ("float64"); call check_float64(one, step)
    case ("complex64"); call check_complex64(one, step)
    case ("complex128"); call check_complex128(one, step)
    case ("bool"); call check_bool(one, step)
    end select
  end subroutine

  subroutine require(holds, one)
    logical, intent(in) :: holds
    type(held), intent(in) :: one
    if (holds) return
    write (error_unit, '(2a)') "not as it was saved: ", trim(one%key)
    error stop 1
  end subroutine

  pure integer function number_of(one, step, i)
    type(held), intent(in) :: one
    integer, intent(in) :: step, i
    number_of = mod(7*i + 13*step + one%number, 101)
    if (one%kind /= "sparse") return
    if (mod(i/product(one%extents(:one%dims - 1)), 2) == 1) number_of = -1
  end function

  pure character(len=8) function text_of(one, step, i)
    type(held), intent(in) :: one
    integer, intent(in) :: step, i
    integer :: v
    v = mod(7*i + 13*step + one%number, 101)
    text_of = repeat(achar(iachar("a") + mod(v, 26)), mod(v, 7))
  end function

  !> The number of element (x, y, z) of the tensor.
  pure integer function place(one, x, y, z)
    type(held), intent(in) :: one
    integer, intent(in) :: x, y, z
    place = x - 1 + one%extents(1)*(y - 1 + one%extents(2)*(z - 1))
  end function

  !> Rows have one of four types, which cairn_rows%get knows.
  subroutine add_rows_of(t, one, step)
    type(table), intent(inout) :: t
    type(held), intent(inout), target :: one
    integer, intent(in) :: step
    integer :: first, rows
    first = one%start(max(1, one%dims), 1) - 1
    rows = merge(one%extent(max(1, one%dims), 1), 0, one%boxes > 0)
    select case (one%type)
    case ("int32"); call one%rows%init(0_int32, one%extents(:one%dims - 1))
    case ("float64"); call one%rows%init(0.0_real64, one%extents(:one%dims - 1))
    case default; error stop "rows of a type that is not known here"
    end select
    call one%rows%resize(int(rows, int64))
    call each_row(one, step, first, rows, fills=.true.)
    if (one%kind == "ragged") call t%state%add_rows(one%key, one%rows)
    if (one%kind == "resizable") call t%state%add_resizable(one%key, one%rows)
  end subroutine

  subroutine check_rows(one, step, first, rows)
    type(held), intent(in), target :: one
    integer, intent(in) :: step, first, rows
    call each_row(one, step, first, rows, fills=.false.)
  end subroutine

  subroutine each_row(one, step, first, rows, fills)
    type(held), intent(in), target :: one
    integer, intent(in) :: step, first, rows
    logical, intent(in) :: fills
    integer(int32), pointer :: i1(:), i2(:, :)
    real(real64), pointer :: r1(:), r2(:, :)
    integer :: k, x, n
    do k = 1, rows
      if (one%dims == 1) then
        n = number_of(one, step, first + k - 1)
        if (one%type == "int32") then
          call one%rows%get(i1)
          if (fills) i1(k) = n
          call require(i1(k) == n, one)
        else
          call one%rows%get(r1)
          if (fills) r1(k) = n
          call require(.not. abs(r1(k) - n) > 0, one)
        end if
      else
        do x = 1, one%extents(1)
          n = number_of(one, step, x - 1 + one%extents(1)*(first + k - 1))
          if (one%type == "int32") then
            call one%rows%get(i2)
            if (fills) i2(x, k) = n
            call require(i2(x, k) == n, one)
          else
            call one%rows%get(r2)
            if (fills) r2(x, k) = n
            call require(.not. abs(r2(x, k) - n) > 0, one)
          end if
        end do
      end if
    end do
  end subroutine

#define ADD add_int8
#define CHECK_ALL check_int8
#define KIND_OF integer(int8)
#define MEMORY memory_int8
#define VALUE(n) int(n, int8)
#define SAME(a, b) (a == b)
#include "tensor_type.inc"
#define ADD add_int16
#define CHECK_ALL check_int16
#define KIND_OF integer(int16)
#define MEMORY memory_int16
#define VALUE(n) int(n, int16)
#include "tensor_type.inc"
#define ADD add_int32
#define CHECK_ALL check_int32
#define KIND_OF integer(int32)
#define MEMORY memory_int32
#define VALUE(n) int(n, int32)
#include "tensor_type.inc"
#define ADD add_int64
#define CHECK_ALL check_int64
#define KIND_OF integer(int64)
#define MEMORY memory_int64
#define VALUE(n) int(n, int64)
#include "tensor_type.inc"
#define ADD add_float32
#define CHECK_ALL check_float32
#define KIND_OF real(real32)
#define MEMORY memory_float32
#define VALUE(n) real(n, real32)
#include "tensor_type.inc"
#define ADD add_float64
#define CHECK_ALL check_float64
#define KIND_OF real(real64)
#define MEMORY memory_float64
#define VALUE(n) real(n, real64)
#include "tensor_type.inc"
#define ADD add_complex64
#define CHECK_ALL check_complex64
#define KIND_OF complex(real32)
#define MEMORY memory_complex64
#define VALUE(n) cmplx(n, n + 1, real32)
#include "tensor_type.inc"
#define ADD add_complex128
#define CHECK_ALL check_complex128
#define KIND_OF complex(real64)
#define MEMORY memory_complex128
#define VALUE(n) cmplx(n, n + 1, real64)
#include "tensor_type.inc"
#undef SAME
#define ADD add_bool
#define CHECK_ALL check_bool
#define KIND_OF logical(int8)
#define MEMORY memory_bool
#define VALUE(n) logical(mod(n, 2) == 1, int8)
#define SAME(a, b) logical(a .eqv. b)
#include "tensor_type.inc"
end module
