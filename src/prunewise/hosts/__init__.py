"""Hosts: what sends requests and asks us first. One package a host."""
