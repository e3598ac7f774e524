module tsmreport

go 1.19

require github.com/google/go-configfs-tsm v0.3.3

require go.uber.org/multierr v1.11.0 // indirect
