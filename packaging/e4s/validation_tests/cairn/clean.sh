#!/bin/bash
rm -rf build run
