module github.com/synergy-slurmd/synergy-slurmd

go 1.26.8
