# cmake -P: fails where CMake is older than the build needs.
cmake_minimum_required(VERSION 3.25)
