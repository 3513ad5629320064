// Package postgres keeps attempts in PostgreSQL.
package postgres
