"""The encode kernel: conversion of columns, instructions, the builder of programs, the loop that runs them."""
